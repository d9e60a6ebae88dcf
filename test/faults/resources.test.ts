import { tryFaults } from './fault.ts'
import { resourceFaults } from './resources.ts'

tryFaults(resourceFaults, 'quick')
