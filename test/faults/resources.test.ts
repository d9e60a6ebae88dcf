import { tryQuickly } from './fault.ts'
import { resourceFaults } from './resources.ts'

tryQuickly(resourceFaults)
