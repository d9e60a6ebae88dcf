import { configFaults } from './config.ts'
import { tryQuickly } from './fault.ts'

tryQuickly(configFaults)
