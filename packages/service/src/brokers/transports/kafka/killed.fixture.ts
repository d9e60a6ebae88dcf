import { kafkaTransport } from '../kafka.ts'
import type { Delivery } from '../transport.ts'

/** Takes six messages, settles the first, the second and the fourth, prints that, and waits to be killed. */
const transport = await kafkaTransport(JSON.parse(process.argv[2] ?? '{}'))
const never = new AbortController().signal
const taken: Delivery[] = []
while (taken.length < 6) taken.push(...(await transport.receive(6 - taken.length, never)))
await transport.settle(taken.filter((_, index) => [0, 1, 3].includes(index)))
console.log('settled')
