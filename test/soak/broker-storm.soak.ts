import { test } from 'node:test'
import { type BrokerStormOptions, brokerStorm } from '../faults/broker-storm.ts'
import { missingEngines } from '../faults/brokers-places.ts'
import { seed } from '../faults/fault.ts'
import { assertSound } from '../faults/ledgers.ts'

const skip = await missingEngines('redis', 'kafka')
const full = process.env.GANTRY_FAULTS === 'full'
const all = { workers: 3, calls: full ? 2_000 : 1_000, kills: full ? 30 : 15, lifeMs: 3_000, slots: 6, seed }
const some = { ...all, calls: 400, kills: 4 }

const storms: { readonly [name: string]: BrokerStormOptions } = {
  'calls by redis survive workers that are killed': { ...all, kind: 'redis' },
  'calls by kafka survive workers that are killed': { ...all, kind: 'kafka', lifeMs: 5_000 },
  'calls by redis survive that it is killed, too': { ...some, kind: 'redis', brokerKills: 4 },
  'calls by kafka survive that it is killed, too': { ...some, kind: 'kafka', brokerKills: 2 },
  'calls by redis survive workers that come and go': { ...some, kind: 'redis', rebalanceMs: 2_000 },
  'calls by kafka survive that its partitions are given out anew': { ...some, kind: 'kafka', rebalanceMs: 5_000 },
}

for (const [name, options] of Object.entries(storms)) {
  test(name, { skip }, async (t) => {
    assertSound(await brokerStorm(t, options), name)
  })
}
