# stream orders, epoch 1, cluster p: read all of these topics
# topics: orders.live.1
#group.id=GROUP
# sasl.password is not printed; the profile has it from file /run/k/kafka.password
# start the client with KAFKA_PASSWORD="$(cat /run/k/kafka.password)"
# ssl.key.password is not printed; the profile has it from environment variable KEY_PW
bootstrap.servers=fake:1
security.protocol=SASL_SSL
config.providers=directory,env
config.providers.directory.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
ssl.truststore.type=PEM
ssl.truststore.location=/run/k/ca.pem
ssl.keystore.type=PEM
ssl.keystore.certificate.chain=${directory:/run/k:me.pem}
ssl.keystore.key=${directory:/run/k:me.key}
ssl.key.password=${env:KEY_PW}
ssl.endpoint.identification.algorithm=
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="o\\"ps" password="${env:KAFKA_PASSWORD}";
auto.offset.reset=earliest
isolation.level=read_committed
