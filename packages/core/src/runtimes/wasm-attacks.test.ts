import { allAttacks } from '../conformance/attacks/all.ts'
import { testAttacks } from '../conformance/attacks/run.ts'
import { createUnsafeHostRuntime } from './unsafe-host.ts'
import { createWasmRuntime } from './wasm.ts'

testAttacks('wasm', allAttacks, async () => ({ runtime: createWasmRuntime(), unguarded: createUnsafeHostRuntime() }))
