import com.sun.net.httpserver.HttpServer;
import com.sun.tools.attach.VirtualMachine;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import javax.management.InstanceNotFoundException;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Serves the MBeans of running brokers as Prometheus text, with the names that Kafka's example rules of the JMX exporter
 * give them, and the label `broker_id`. Its arguments are `ID=MARKER`: a broker is the process that has the marker among
 * its arguments, so that one that is started again is found again; of a dead one nothing is served. Prints the port.
 * Attaches to the processes, which need no options for it. Runs as a single source file.
 */
public class ServeBrokerMetrics {
    private static final List<String> TRAFFIC = List.of("BytesIn", "BytesOut", "ReplicationBytesIn",
        "ReplicationBytesOut", "ReassignmentBytesIn", "ReassignmentBytesOut");
    private static final List<String> TIMES = List.of("TotalTimeMs", "RequestQueueTimeMs");
    private static final Map<String, JMXConnector> CONNECTORS = new ConcurrentHashMap<>();

    public static void main(String[] brokers) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/metrics", exchange -> {
            byte[] page = Arrays.stream(brokers).parallel().map(ServeBrokerMetrics::read)
                .collect(Collectors.joining()).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; version=0.0.4");
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.start();
        System.out.println(server.getAddress().getPort());
    }

    private static String read(String broker) {
        String id = broker.split("=", 2)[0];
        try {
            JMXConnector connector = CONNECTORS.get(id);
            if (connector == null) CONNECTORS.put(id, connector = connect(broker.split("=", 2)[1]));
            return lines(connector.getMBeanServerConnection(), id);
        } catch (Exception gone) {
            CONNECTORS.remove(id);
            return "# broker " + id + ": " + String.valueOf(gone).replaceAll("\\s+", " ") + "\n";
        }
    }

    private static JMXConnector connect(String marker) throws Exception {
        long pid = ProcessHandle.allProcesses()
            .filter(p -> Arrays.asList(p.info().arguments().orElse(new String[0])).contains(marker))
            .findFirst().orElseThrow(() -> new IllegalStateException("no process has " + marker)).pid();
        VirtualMachine machine = VirtualMachine.attach(String.valueOf(pid));
        try {
            return JMXConnectorFactory.connect(new JMXServiceURL(machine.startLocalManagementAgent()));
        } finally {
            machine.detach();
        }
    }

    private static String lines(MBeanServerConnection beans, String id) throws Exception {
        StringBuilder found = new StringBuilder();
        String label = "broker_id=\"" + id + "\"";
        for (String name : TRAFFIC) {
            add(found, beans, "kafka.server:type=BrokerTopicMetrics,name=" + name + "PerSec", "Count",
                "kafka_server_brokertopicmetrics_" + name.toLowerCase(Locale.ROOT) + "_total{" + label + "} ");
        }
        for (String name : TIMES) {
            String bean = "kafka.network:type=RequestMetrics,name=" + name + ",request=Produce";
            String metric = "kafka_network_requestmetrics_" + name.toLowerCase(Locale.ROOT);
            String labels = label + ",request=\"Produce\"";
            add(found, beans, bean, "99thPercentile", metric + "{" + labels + ",quantile=\"0.99\"} ");
            add(found, beans, bean, "Count", metric + "_count{" + labels + "} ");
        }
        add(found, beans, "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions", "Value",
            "kafka_server_replicamanager_underreplicatedpartitions{" + label + "} ");
        return found.toString();
    }

    private static void add(StringBuilder to, MBeanServerConnection beans, String bean, String attribute, String series)
        throws Exception {
        try {
            to.append(series).append(beans.getAttribute(new ObjectName(bean), attribute)).append('\n');
        } catch (InstanceNotFoundException unused) {
            // Kafka makes the meters of a request type with its first request.
        }
    }
}
