import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Stream;
import kafka.server.KafkaConfig;
import kafka.tools.StorageTool;

/**
 * Answers for each line of its input whether Kafka's own code refuses a configuration: "topic", "broker" or "node",
 * then keys and values in Base64, separated by blanks; a broker has the settings of the arguments besides, a node only
 * its own. Prints "accepted", or "refused" with the reason. Topics are those of a cluster with tiered storage. "format"
 * and "standalone" ask the storage tool to format the directories of a node, which have to be below the working
 * directory: each is emptied first. Runs as a single source file on the class path of a Kafka version.
 */
public class CheckConfigs {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Properties base = new Properties();
        for (String argument : arguments) base.put(argument.split("=", 2)[0], argument.split("=", 2)[1]);
        Map<String, Object> brokerDefaults = brokerDefaults(base);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            Properties given = new Properties();
            for (int i = 1; i + 1 < words.length; i += 2) given.put(decoded(words[i]), decoded(words[i + 1]));
            out.println(answer(words[0], base, given, brokerDefaults));
        }
        out.flush();
    }

    private static String answer(String scope, Properties base, Properties given, Map<String, Object> brokerDefaults) {
        try {
            if (scope.equals("topic")) {
                validateTopic(given, brokerDefaults);
            } else if (scope.equals("format") || scope.equals("standalone")) {
                format(given, scope.equals("standalone") ? List.of("--standalone") : List.of());
            } else {
                Properties all = new Properties();
                if (scope.equals("broker")) all.putAll(base);
                all.putAll(given);
                KafkaConfig.fromProps(all, false);
            }
            return "accepted";
        } catch (Throwable refusal) {
            Throwable cause = refusal instanceof InvocationTargetException ? refusal.getCause() : refusal;
            return "refused " + String.valueOf(cause).replaceAll("[\\r\\n]+", " ");
        }
    }

    /** Formats directories as `kafka-storage.sh` does, from an empty working directory. */
    private static void format(Properties given, List<String> flags) throws Exception {
        Path here = Path.of("").toAbsolutePath();
        try (Stream<Path> old = Files.walk(here)) {
            for (Path path : old.sorted(Comparator.reverseOrder()).toList()) if (!path.equals(here)) Files.delete(path);
        }
        Path file = here.resolve("node.properties");
        try (OutputStream out = Files.newOutputStream(file)) {
            given.store(out, null);
        }
        List<String> words = new ArrayList<>(List.of("format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", file.toString()));
        words.addAll(flags);
        int code = executed(words.toArray(String[]::new));
        if (code != 0) throw new IOException("the storage tool ended with " + code);
    }

    /** Before 3.9 the tool prints to the standard output. */
    private static int executed(String[] words) throws Exception {
        PrintStream nowhere = new PrintStream(OutputStream.nullOutputStream()), out = System.out;
        try {
            return StorageTool.execute(words, nowhere);
        } catch (NoSuchMethodError older) {
            System.setOut(nowhere);
            return (int) StorageTool.class.getMethod("execute", String[].class).invoke(null, (Object) words);
        } finally {
            System.setOut(out);
        }
    }

    /** The signature changed between versions: what brokers have, what a topic had, from Properties to Map, no ZooKeeper. */
    private static void validateTopic(Properties given, Map<String, Object> brokerDefaults) throws Exception {
        Method method = Arrays.stream(logConfig().getMethods()).filter(m -> m.getName().equals("validate"))
            .max(Comparator.comparing(Method::getParameterCount)).get();
        Map<String, String> none = new HashMap<>();
        switch (method.getParameterCount()) {
            case 1: method.invoke(null, given); break;
            case 3: method.invoke(null, given, brokerDefaults, true); break;
            case 4: method.invoke(null, none, asWanted(method, given), brokerDefaults, true); break;
            default: method.invoke(null, none, asWanted(method, given), brokerDefaults, true, false);
        }
    }

    private static Object asWanted(Method method, Properties given) {
        return method.getParameterTypes()[1] == Properties.class ? given : new HashMap<>(given);
    }

    private static Class<?> logConfig() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.storage.internals.log.LogConfig");
        } catch (ClassNotFoundException older) {
            return Class.forName("kafka.log.LogConfig");
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> brokerDefaults(Properties base) throws Exception {
        KafkaConfig config = KafkaConfig.fromProps(base, false);
        try {
            return (Map<String, Object>) KafkaConfig.class.getMethod("extractLogConfigMap").invoke(config);
        } catch (NoSuchMethodException older) {
            return Map.of(); // which judges topics on their own
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word.substring(1)), StandardCharsets.UTF_8);
    }
}
