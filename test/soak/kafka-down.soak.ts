import { after } from 'node:test'
import { testBrokerDown } from '../../packages/service/src/brokers/transports/kafka/broker-down.fixture.ts'
import { startKafka } from '../../scripts/engines/kafka.ts'

const server = await startKafka()
after(() => server.stop())
testBrokerDown(server)
