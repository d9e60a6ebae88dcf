import { createEgress } from '@gantry/core'
import { someResult } from '../storage/calls.fixture.ts'
import { openPostgres } from '../storage/databases/postgres.ts'
import { outboxRecords } from '../storage/outbox/outbox.ts'
import { knownOutcomes, testKey } from './callback.fixture.ts'
import { createCallbackSender } from './callback.ts'
import { startRelay } from './relay.ts'

/** A relay in a process of its own that is killed after a send and before it marks the item as sent. */
const [url = '', origin = ''] = process.argv.slice(2)
const database = await openPostgres({ url })
const outbox = outboxRecords(database)
startRelay({
  outbox: {
    ...outbox,
    async sent() {
      process.kill(process.pid, 'SIGKILL')
    },
  },
  notifications: { onOutbox: () => () => {} },
  leaseMs: 500,
  send: createCallbackSender({
    egress: createEgress({}),
    origins: () => [{ origin, private: true }],
    keyOf: async () => testKey,
    views: knownOutcomes(someResult({ callId: 'c1' })),
  }),
})
