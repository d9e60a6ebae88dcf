import { crashFaults } from './crash.ts'
import { tryQuickly } from './fault.ts'

tryQuickly(crashFaults)
