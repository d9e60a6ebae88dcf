import { tryQuickly } from './fault.ts'
import { keyFaults } from './keys.ts'

tryQuickly(keyFaults)
