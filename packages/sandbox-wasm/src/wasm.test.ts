import { testRuntime } from '@gantry/conformance/internal/runtime'
import { createWasmRuntime } from './wasm.ts'

const noShell = 'A WebAssembly instance has no shell and no programs of a system.'

testRuntime('wasm', async () => ({ runtime: createWasmRuntime() }), {
  shell: noShell,
  bash: noShell,
  c: 'A WebAssembly instance has no compiler; a module that was compiled elsewhere is its own kind of program.',
  processes: 'A WebAssembly instance has no processes.',
  'python over tools': 'Python over tools is in the process runtime.',
})
