import { tryQuickly } from './fault.ts'
import { payloadFaults } from './payloads.ts'

tryQuickly(payloadFaults)
