import { crashFaults } from './crash.ts'
import { tryFaults } from './fault.ts'

tryFaults(crashFaults, 'quick')
