import { tryFaults } from './fault.ts'
import { payloadFaults } from './payloads.ts'

tryFaults(payloadFaults, 'quick')
