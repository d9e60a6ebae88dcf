import { testBrokerDown } from '../../packages/service/src/transports/kafka/broker-down.fixture.ts'
import { startKafka } from '../../scripts/engines/kafka.ts'

testBrokerDown(await startKafka())
