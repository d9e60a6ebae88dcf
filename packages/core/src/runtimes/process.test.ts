import { test } from 'node:test'
import { testRuntime } from '../conformance/runtime.ts'
import { noBubblewrap } from '../conformance/sandbox-test.ts'
import { createProcessRuntime } from './process.ts'

if (noBubblewrap === undefined)
  testRuntime('process', async () => ({ runtime: createProcessRuntime() }), {
    'javascript over tools': 'JavaScript over tools is in the wasm runtime',
  })
else test('the process runtime', { skip: noBubblewrap }, () => undefined)
