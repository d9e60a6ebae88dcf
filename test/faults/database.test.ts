import { databaseFaults } from './database.ts'
import { tryQuickly } from './fault.ts'

tryQuickly(databaseFaults)
