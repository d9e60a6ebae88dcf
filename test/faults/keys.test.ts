import { tryFaults } from './fault.ts'
import { keyFaults } from './keys.ts'

tryFaults(keyFaults, 'quick')
