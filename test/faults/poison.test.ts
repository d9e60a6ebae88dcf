import { tryQuickly } from './fault.ts'
import { poisonFaults } from './poison.ts'

tryQuickly(poisonFaults)
