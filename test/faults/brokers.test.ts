import { test } from 'node:test'
import { brokerFaults } from './brokers-away.ts'
import { fileFaults } from './brokers-files.ts'
import { keptFaults } from './brokers-kept.ts'
import { missingEngines } from './brokers-places.ts'
import { tryFaults } from './fault.ts'

const missing = await missingEngines('redis', 'kafka')

/** These take longest; the soak has them. */
const slow = [8, 12]
const quick = [...brokerFaults, ...fileFaults, ...keptFaults].filter(({ number }) => !slow.includes(number))

if (missing === false) tryFaults(quick, 'quick')
else test('faults of brokers', { skip: missing }, () => undefined)
