import { test } from 'node:test'
import { fileFaults } from '../faults/brokers-files.ts'
import { keptFaults, slowKeptFaults } from '../faults/brokers-kept.ts'
import { missingEngines } from '../faults/brokers-places.ts'
import { brokerFaults, slowBrokerFaults } from '../faults/brokers-unavailable.ts'
import { tryAtLength } from '../faults/fault.ts'

const missing = await missingEngines('redis', 'kafka')
const all = [brokerFaults, slowBrokerFaults, fileFaults, keptFaults, slowKeptFaults]

if (missing === false) tryAtLength(all.flat())
else test('faults of brokers', { skip: missing }, () => undefined)
