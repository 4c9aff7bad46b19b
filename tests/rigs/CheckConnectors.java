import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigValue;

/**
 * Answers for each line of its input whether a connector of Debezium refuses its configuration when it is created: the
 * class, then keys and values in Base64, separated by blanks. Prints "accepted", or "refused" with the keys and the
 * reasons. Only fields are looked at, so that nothing is connected to. Runs as a single source file.
 */
public class CheckConnectors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            Map<String, String> given = new HashMap<>();
            for (int i = 1; i + 1 < words.length; i += 2) given.put(decoded(words[i]), decoded(words[i + 1]));
            out.println(answer(words[0], given).replaceAll("[\\r\\n]+", " "));
        }
        out.flush();
    }

    private static String answer(String name, Map<String, String> given) throws Exception {
        StringBuilder refused = new StringBuilder();
        for (ConfigValue value : checked(name, given).values()) {
            if (!value.errorMessages().isEmpty()) refused.append(" | " + value.name() + ": " + value.errorMessages());
        }
        return refused.length() == 0 ? "accepted" : "refused" + refused;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, ConfigValue> checked(String name, Map<String, String> given) throws Exception {
        Class<?> configuration = Class.forName("io.debezium.config.Configuration");
        Object connector = Class.forName(name).getConstructor().newInstance();
        Class<?> holder = connector.getClass();
        while (true) {
            try {
                Method method = holder.getDeclaredMethod("validateAllFields", configuration);
                method.setAccessible(true);
                return (Map<String, ConfigValue>) method.invoke(connector, configuration.getMethod("from", Map.class).invoke(null, given));
            } catch (NoSuchMethodException inherited) {
                holder = holder.getSuperclass();
            }
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word.substring(1)), StandardCharsets.UTF_8);
    }
}
