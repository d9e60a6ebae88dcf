import { testRuntime } from '../conformance/runtime.ts'
import { createProcessRuntime } from './process.ts'

testRuntime('process', async () => ({ runtime: createProcessRuntime() }))
