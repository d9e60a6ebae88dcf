import { setTimeout as delay } from 'node:timers/promises'
import { type KafkaTransportOptions, kafkaTransport } from '../kafka.ts'

/**
 * A program that closes consumers at every stage of their joining; it exits when none of them keeps the process alive.
 */
const options = JSON.parse(process.argv[2] ?? '{}') as KafkaTransportOptions
await Promise.all(
  Array.from({ length: 60 }, async (_, n) => {
    const transport = await kafkaTransport({ ...options, clientId: `c${n}`, group: `${options.group}-${n}` })
    await delay(n * 10)
    await transport.close()
  }),
)
