import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Prints the configuration definitions of the Kafka version on the class path as one JSON document, raw: types, defaults,
 * validators with their fields, documentation, synonyms and update modes. Runs as a single source file (JDK 17 or newer).
 * All classes are looked up by name: from 2.8 to 4.4 they moved from Scala objects to Java.
 */
public class DumpConfigDefs {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        for (String name : arguments) all.put(name, keys(definitionsOf(Class.forName(name)).configKeys()));
        if (arguments.length > 0) {
            print(all);
            return;
        }
        Object topic = called(first("org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig$"), "configDefCopy");
        all.put("topic", keys(((ConfigDef) topic).configKeys()));
        all.put("broker", keys(brokerDefinitions().configKeys()));
        all.put("dynamic_broker", keys(dynamicDefinitions()));
        all.put("synonyms", synonyms());
        all.put("update_modes", new TreeMap<>((Map<?, ?>) called(dynamic("DynamicBrokerConfig"), "dynamicConfigUpdateModes")));
        print(all);
    }

    private static void print(Map<String, Object> all) {
        StringBuilder out = new StringBuilder();
        write(all, out);
        System.out.println(out);
    }

    /** What a class defines: a connector by its method, a configuration by a static method or field of its own. */
    private static ConfigDef definitionsOf(Class<?> holder) throws Exception {
        try {
            return (ConfigDef) holder.getMethod("config").invoke(holder.getConstructor().newInstance());
        } catch (NoSuchMethodException noConnector) {
            for (Method method : holder.getDeclaredMethods()) {
                boolean isStatic = java.lang.reflect.Modifier.isStatic(method.getModifiers());
                if (!isStatic || method.getReturnType() != ConfigDef.class || method.getParameterCount() > 1) continue;
                method.setAccessible(true);
                if (method.getParameterCount() == 0) return (ConfigDef) method.invoke(null);
                Class<?> parameter = method.getParameterTypes()[0];
                if (!parameter.getSimpleName().equals("Crypto")) continue;
                // Of a distributed worker: the algorithms of the machine.
                return (ConfigDef) method.invoke(null, parameter.getField("SYSTEM").get(null));
            }
            for (Field field : holder.getDeclaredFields()) {
                if (field.getType() != ConfigDef.class) continue;
                field.setAccessible(true);
                return (ConfigDef) field.get(null);
            }
            throw new IllegalArgumentException(holder + " defines no configuration");
        }
    }

    private static ConfigDef brokerDefinitions() throws Exception {
        try {
            return (ConfigDef) Class.forName("org.apache.kafka.server.config.AbstractKafkaConfig").getField("CONFIG_DEF").get(null);
        } catch (ClassNotFoundException older) {
            return (ConfigDef) called(Class.forName("kafka.server.KafkaConfig$"), "configDef");
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, ConfigDef.ConfigKey> dynamicDefinitions() throws Exception {
        Class<?> holder = dynamic("DynamicConfig$Broker");
        try {
            return (Map<String, ConfigDef.ConfigKey>) called(holder, "configKeys");
        } catch (NoSuchMethodException older) {
            return ((ConfigDef) called(holder, "brokerConfigDef")).configKeys();
        }
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

    /** The broker keys that each topic key inherits from, strongest first; up to 2.8 all but the strongest are told elsewhere. */
    private static Map<String, Object> synonyms() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<?, ?> entry : topicSynonyms().entrySet()) {
            List<Object> names = new ArrayList<>();
            for (Object synonym : listed(entry.getValue())) {
                names.add(synonym instanceof String ? synonym : member(synonym, "name"));
            }
            found.put((String) entry.getKey(), names);
        }
        return found;
    }

    private static Map<?, ?> topicSynonyms() throws Exception {
        Class<?> holder = first("org.apache.kafka.server.config.ServerTopicConfigSynonyms", "kafka.log.LogConfig$");
        if (!holder.getName().endsWith("$")) return (Map<?, ?>) holder.getField("ALL_TOPIC_CONFIG_SYNONYMS").get(null);
        try {
            return inJava(called(holder, "AllTopicConfigSynonyms"), "scala.collection.Map", Map.class);
        } catch (NoSuchMethodException older) {
            Class<?> brokers = dynamic("DynamicBrokerConfig");
            Map<Object, Object> all = new TreeMap<>();
            Map<?, ?> strongest = inJava(called(holder, "TopicConfigSynonyms"), "scala.collection.Map", Map.class);
            for (Map.Entry<?, ?> entry : strongest.entrySet()) {
                Object names = brokers.getMethod("brokerConfigSynonyms", String.class, boolean.class)
                    .invoke(brokers.getField("MODULE$").get(null), entry.getValue(), false);
                all.put(entry.getKey(), names);
            }
            return all;
        }
    }

    private static Collection<?> listed(Object items) throws Exception {
        return items instanceof Collection<?> ? (Collection<?>) items : inJava(items, "scala.collection.Seq", List.class);
    }

    /** A collection of Scala as one of Java, which it may be already. */
    private static <T> T inJava(Object collection, String type, Class<T> wanted) throws Exception {
        if (wanted.isInstance(collection)) return wanted.cast(collection);
        Method converter = Class.forName("scala.jdk.javaapi.CollectionConverters").getMethod("asJava", Class.forName(type));
        return wanted.cast(converter.invoke(null, collection));
    }

    private static Object member(Object object, String method) throws Exception {
        Method found = object.getClass().getMethod(method);
        found.setAccessible(true);
        return found.invoke(object);
    }

    private static Class<?> first(String... names) throws ClassNotFoundException {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException absent) {
                continue;
            }
        }
        throw new ClassNotFoundException(String.join(", ", names));
    }

    /** A holder of the server's dynamic configuration: a Scala object up to 4.2, of Java since. */
    private static Class<?> dynamic(String holder) throws ClassNotFoundException {
        return first("org.apache.kafka.server.config." + holder, "kafka.server." + holder + "$");
    }

    /** What a method without parameters returns: of a Scala object, or static. */
    private static Object called(Class<?> holder, String method) throws Exception {
        Object object = holder.getName().endsWith("$") ? holder.getField("MODULE$").get(null) : null;
        return holder.getMethod(method).invoke(object);
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
