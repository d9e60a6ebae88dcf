import { test } from 'node:test'
import { fileFaults } from './brokers-files.ts'
import { keptFaults } from './brokers-kept.ts'
import { missingEngines } from './brokers-places.ts'
import { brokerFaults } from './brokers-unavailable.ts'
import { tryQuickly } from './fault.ts'

const missing = await missingEngines('redis', 'kafka')

if (missing === false) tryQuickly([...brokerFaults, ...fileFaults, ...keptFaults])
else test('faults of brokers', { skip: missing }, () => undefined)
