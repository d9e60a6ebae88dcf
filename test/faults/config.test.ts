import { configFaults } from './config.ts'
import { tryFaults } from './fault.ts'

tryFaults(configFaults, 'quick')
