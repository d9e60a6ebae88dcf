import type { QuickJSContext, QuickJSHandle } from 'quickjs-emscripten-core'
import type { Engine } from './engine.ts'
import { createRaw } from './raw.ts'

/** A program over tools, as a thing that rests and is told. All of it is text; a failure is the interpreter's own. */
export interface Conversation {
  /** Does what promises wait for, up to so many; false when the interpreter gave up on it. */
  work(jobs: number): boolean
  readonly pending: boolean
  /** Its state and what it has asked since the last time; undefined when it cannot even say that. */
  rest(): string | undefined
  /** Tells it an answer; false when it could not take it. */
  tell(number: number, ok: boolean, text: string): boolean
}

/** Made before the image of the memory is taken, so that its room and its functions are there for every program. */
export function createConversation(engine: Engine, context: QuickJSContext, prelude: QuickJSHandle): Conversation {
  const raw = createRaw(engine, context)
  const rest = raw.pointer(context.getProp(prelude, 'rest'))
  const tell = raw.pointer(context.getProp(prelude, 'tell'))
  return {
    work: raw.work,
    get pending() {
      return raw.pending
    },
    rest: () => raw.take(rest),
    tell: (number, ok, text) => raw.give(tell, ok ? number : -number, text),
  }
}
