import { lazily } from '../guest/lazily.ts'
import { compileQuickjs } from '../quickjs/compile.ts'
import { createThreadSharing } from './shared-pool.ts'

/**
 * What the wasm runtimes of one process share: the only state here that outlives a runtime. It holds nothing of any
 * program or configuration, so that an executor finds the same as in a process of its own, only sooner:
 * - `quickjs`: the compiled interpreter, made once; every thread gets the same code.
 * - `threads`: threads that have started, for as long as a runtime is open; each runtime has as many as it may have alone.
 * - `held`: by the versions of the interpreters, how fast QuickJS started when it held against every attack of its self-test.
 */
export const processWide = {
  quickjs: lazily(compileQuickjs),
  threads: createThreadSharing(),
  held: new Map<string, number>(),
} as const
