import { databaseFaults } from './database.ts'
import { tryFaults } from './fault.ts'

tryFaults(databaseFaults, 'quick')
