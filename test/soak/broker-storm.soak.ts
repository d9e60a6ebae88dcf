import { test } from 'node:test'
import { type BrokerStormOptions, brokerStorm } from '../faults/broker-storm.ts'
import { missingEngines } from '../faults/brokers-places.ts'
import { seed } from '../faults/fault.ts'
import { assertSound } from '../faults/ledgers.ts'
import { shareOf } from './share.ts'

const skip = await missingEngines('redis', 'kafka')
const full = process.env.GANTRY_FAULTS === 'full'
const all = {
  workers: 3,
  calls: full ? 2_000 : shareOf(1_000),
  kills: full ? 30 : shareOf(15),
  lifeMs: 3_000,
  slots: 6,
  seed,
}
const some = { ...all, calls: shareOf(400), kills: shareOf(4) }

const storms: { readonly [name: string]: BrokerStormOptions } = {
  'calls over redis survive kills of workers': { ...all, kind: 'redis' },
  'calls over kafka survive kills of workers': { ...all, kind: 'kafka', lifeMs: 5_000 },
  'calls over redis survive kills of workers and broker': { ...some, kind: 'redis', brokerKills: 4 },
  'calls over kafka survive kills of workers and broker': { ...some, kind: 'kafka', brokerKills: 2 },
  'calls over redis survive workers that join and leave': { ...some, kind: 'redis', rebalanceMs: 2_000 },
  'calls over kafka survive rebalanced partitions': { ...some, kind: 'kafka', rebalanceMs: 5_000 },
}

for (const [name, options] of Object.entries(storms)) {
  test(name, { skip }, async (t) => {
    assertSound(await brokerStorm(t, options), name)
  })
}
