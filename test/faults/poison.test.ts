import { tryFaults } from './fault.ts'
import { poisonFaults } from './poison.ts'

tryFaults(poisonFaults, 'quick')
