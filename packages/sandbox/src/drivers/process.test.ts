import { test } from 'node:test'
import { testRuntime } from '@gantry/conformance/internal/runtime'
import { lackingPrograms, noBubblewrap } from '@gantry/conformance/internal/sandbox-test'
import { createProcessRuntime } from './process.ts'

if (noBubblewrap === undefined)
  testRuntime('process', async () => ({ runtime: createProcessRuntime() }), {
    ...lackingPrograms,
    'javascript over tools': 'JavaScript over tools is in the wasm runtime',
  })
else test('the process runtime', { skip: noBubblewrap }, () => undefined)
