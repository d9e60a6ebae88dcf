import { allAttacks } from '@gantry/conformance/internal/attacks/all'
import { testAttacks } from '@gantry/conformance/internal/attacks/attack'
import { createUnsafeHostRuntime } from '@gantry/sandbox/internal/drivers/unsafe-host'
import { createWasmRuntime } from './wasm.ts'

testAttacks('wasm', allAttacks, async () => ({ runtime: createWasmRuntime(), unguarded: createUnsafeHostRuntime() }))
