import {
  type RedisTransportOptions,
  redisTransport as sound,
} from '../../packages/service/src/brokers/transports/redis.ts'
import type { Transport } from '../../packages/service/src/brokers/transports/transport.ts'

/** Settles what it hands over, as if that were safe. */
export async function redisTransport(options: RedisTransportOptions): Promise<Transport> {
  const transport = await sound(options)
  return {
    ...transport,
    async receive(max, signal) {
      const deliveries = await transport.receive(max, signal)
      await transport.settle(deliveries)
      return deliveries
    },
  }
}
