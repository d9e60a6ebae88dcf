import { ToolError } from '@gantry/contract'

/** A seeded random number generator (mulberry32), the simulation's only source of chance. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** A simulated process. A dead one never passes a gate. */
export interface Actor {
  readonly name: string
  dead: boolean
}

/**
 * Serializes all actions: actors wait at gates, and the driver lets one of them pass at a time. A dead actor waits for
 * ever.
 */
export interface World {
  readonly random: () => number
  readonly now: () => number
  advance(ms: number): void
  gate(actor: Actor): Promise<void>
  /** Lets one actor through; false when none waits. */
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
      // Everything that this causes happens before another actor moves.
      await new Promise((resolve) => setImmediate(resolve))
      return next !== undefined
    },
    chance: (likelihood) => random() < likelihood,
  }
}

/** Puts a gate before and after every operation, and fails some of them: not done, or done without a response. */
export function gated<T extends object>(target: T, actor: Actor, world: World, faults: () => number): T {
  return new Proxy(target, {
    get(object, name, receiver) {
      const value = Reflect.get(object, name, receiver)
      if (typeof value !== 'function') return value
      return async (...args: unknown[]): Promise<unknown> => {
        await world.gate(actor)
        if (world.chance(faults())) throw unavailable('none')
        const answer = await value.apply(object, args)
        await world.gate(actor)
        if (world.chance(faults())) throw unavailable('unknown')
        return answer
      }
    },
  })
}

function unavailable(outcome: 'none' | 'unknown'): ToolError {
  return new ToolError('STORE_UNAVAILABLE', 'The database is unavailable.', { details: { outcome } })
}
