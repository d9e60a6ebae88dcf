import {
  type RedisTransportOptions,
  redisTransport as sound,
} from '../../packages/service/src/brokers/transports/redis.ts'
import type { Transport } from '../../packages/service/src/brokers/transports/transport.ts'

/** Acknowledges messages at delivery, before their calls are stored. */
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
