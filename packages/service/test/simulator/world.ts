import { ToolError } from '@gantry/contract'

/** Everything in a simulation that is left to chance, from one number. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** A process of the simulation. When it is dead, nothing of it goes on. */
export interface Actor {
  readonly name: string
  dead: boolean
}

/**
 * The place where everything happens in one order: whoever waits stands at a gate, and the one who drives the world lets
 * one of them through at a time. An actor that dies stands at his gates for ever.
 */
export interface World {
  readonly random: () => number
  readonly now: () => number
  advance(ms: number): void
  gate(actor: Actor): Promise<void>
  /** Lets one through; false when nobody stands at a gate. */
  step(): Promise<boolean>
  /** Whether a fault happens here and now. */
  chance(likelihood: number): boolean
}

export function createWorld(seed: number): World {
  const random = createRandom(seed)
  let time = 1_000_000
  let gates: { readonly actor: Actor; readonly pass: () => void }[] = []
  return {
    random,
    now: () => time,
    advance(ms) {
      time += ms
    },
    gate: (actor) => new Promise((pass) => gates.push({ actor, pass })),
    async step() {
      gates = gates.filter(({ actor }) => !actor.dead)
      const [next] = gates.splice(Math.floor(random() * gates.length), 1)
      next?.pass()
      // All that follows from it happens before anybody else moves.
      await new Promise((resolve) => setImmediate(resolve))
      return next !== undefined
    },
    chance: (likelihood) => random() < likelihood,
  }
}

/** Puts a gate before and behind every operation, and lets some of them fail: not done, or done without an answer. */
export function gated<T extends object>(target: T, actor: Actor, world: World, faults: () => number): T {
  return new Proxy(target, {
    get(object, name, receiver) {
      const value = Reflect.get(object, name, receiver)
      if (typeof value !== 'function') return value
      return async (...args: unknown[]): Promise<unknown> => {
        await world.gate(actor)
        if (world.chance(faults())) throw away('none')
        const answer = await value.apply(object, args)
        await world.gate(actor)
        if (world.chance(faults())) throw away('unknown')
        return answer
      }
    },
  })
}

function away(outcome: 'none' | 'unknown'): ToolError {
  return new ToolError('STORE_UNAVAILABLE', 'The database is away.', { details: { outcome } })
}
