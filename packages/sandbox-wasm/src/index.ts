export { createWasmRuntime, type HostProcess, type SpawnHost, type WasmOptions } from './wasm.ts'
