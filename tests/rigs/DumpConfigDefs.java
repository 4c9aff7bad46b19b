import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints the configuration definitions of the Kafka version on the class path as one JSON document, raw: types, defaults,
 * validators with their fields, documentation, synonyms and update modes. Runs as a single source file (JDK 17 or newer).
 */
public class DumpConfigDefs {
    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("topic", keys(LogConfig.configDefCopy().configKeys()));
        all.put("broker", keys(AbstractKafkaConfig.CONFIG_DEF.configKeys()));
        all.put("dynamic_broker", keys((Map<String, ConfigDef.ConfigKey>) invoke("DynamicConfig$Broker", "configKeys")));
        all.put("synonyms", synonyms());
        all.put("update_modes", new TreeMap<>((Map<?, ?>) invoke("DynamicBrokerConfig", "dynamicConfigUpdateModes")));
        StringBuilder out = new StringBuilder();
        write(all, out);
        System.out.println(out);
    }

    private static List<Object> keys(Map<String, ConfigDef.ConfigKey> definitions) throws Exception {
        List<Object> found = new ArrayList<>();
        for (ConfigDef.ConfigKey key : new TreeMap<>(definitions).values()) {
            Map<String, Object> described = new LinkedHashMap<>();
            described.put("name", key.name);
            described.put("type", key.type.name().toLowerCase());
            described.put("has_default", key.hasDefault());
            described.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            described.put("validator", key.validator == null ? null : fields(key.validator));
            described.put("importance", key.importance.name().toLowerCase());
            described.put("internal", key.internalConfig);
            described.put("documentation", key.documentation);
            found.add(described);
        }
        return found;
    }

    /** A validator's class, text and fields, those of nested validators too. */
    private static Map<String, Object> fields(Object validator) throws Exception {
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("class", validator.getClass().getSimpleName().replaceAll("\\$\\$Lambda.*", "lambda"));
        // A lambda prints its identity, which differs from run to run.
        String text = String.valueOf(validator);
        described.put("text", text.contains("$$Lambda") ? "" : text);
        if (!validator.getClass().isSynthetic() && !validator.getClass().isHidden()) {
            for (Field field : validator.getClass().getDeclaredFields()) {
                if (field.isSynthetic() || java.lang.reflect.Modifier.isStatic(field.getModifiers())) continue;
                field.setAccessible(true);
                described.put(field.getName(), plain(field.get(validator)));
            }
        }
        return described;
    }

    private static Object plain(Object value) throws Exception {
        if (value == null || value instanceof Number || value instanceof Boolean || value instanceof String) return value;
        if (value instanceof ConfigDef.Validator) return fields(value);
        List<Object> items = new ArrayList<>();
        if (value instanceof Collection<?>) {
            for (Object item : (Collection<?>) value) items.add(plain(item));
            return items;
        }
        if (value.getClass().isArray()) {
            for (int i = 0; i < Array.getLength(value); i++) items.add(plain(Array.get(value, i)));
            return items;
        }
        return value.getClass().isHidden() ? "lambda" : value.toString();
    }

    private static Map<String, Object> synonyms() {
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<String, List<ConfigSynonym>> entry : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.entrySet()) {
            List<Object> names = new ArrayList<>();
            for (ConfigSynonym synonym : entry.getValue()) names.add(synonym.name());
            found.put(entry.getKey(), names);
        }
        return found;
    }

    /** A method of the server's dynamic configuration: of a Scala object up to 4.2, static in Java since. */
    private static Object invoke(String holder, String method) throws Exception {
        try {
            return Class.forName("org.apache.kafka.server.config." + holder).getMethod(method).invoke(null);
        } catch (ClassNotFoundException older) {
            Object object = Class.forName("kafka.server." + holder + "$").getField("MODULE$").get(null);
            return object.getClass().getMethod(method).invoke(object);
        }
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?>) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(separator);
                write(entry.getKey(), out);
                out.append(':');
                write(entry.getValue(), out);
                separator = ",";
            }
            out.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof List<?>) {
            String separator = "";
            out.append('[');
            for (Object item : (List<?>) value) {
                out.append(separator);
                write(item, out);
                separator = ",";
            }
            out.append(']');
        } else if (value instanceof String) {
            out.append('"');
            for (char c : ((String) value).toCharArray()) {
                if (c == '"' || c == '\\') out.append('\\').append(c);
                else if (c < ' ') out.append(String.format("\\u%04x", (int) c));
                else out.append(c);
            }
            out.append('"');
        } else {
            out.append(value);
        }
    }
}
