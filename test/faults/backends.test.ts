import { backendFaults } from './backends.ts'
import { tryQuickly } from './fault.ts'

tryQuickly(backendFaults)
