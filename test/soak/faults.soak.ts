import { backendFaults } from '../faults/backends.ts'
import { configFaults } from '../faults/config.ts'
import { crashFaults } from '../faults/crash.ts'
import { databaseFaults } from '../faults/database.ts'
import { tryAtLength } from '../faults/fault.ts'
import { keyFaults } from '../faults/keys.ts'
import { payloadFaults } from '../faults/payloads.ts'
import { poisonFaults } from '../faults/poison.ts'
import { resourceFaults } from '../faults/resources.ts'

const all = [crashFaults, databaseFaults, keyFaults, configFaults, poisonFaults, payloadFaults, resourceFaults]

tryAtLength([...all.flat(), ...backendFaults])
