import { backendFaults } from './backends.ts'
import { tryFaults } from './fault.ts'

tryFaults(backendFaults, 'quick')
