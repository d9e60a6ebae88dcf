import type { JsonObject, Tool } from 'gantry'
import { fillers, nouns, rareWord, services, verbs } from './vocabulary.ts'

type Random = () => number

/** The same numbers in every run (mulberry32), so that two runs search the same tools. */
export function seededRandom(seed: number): Random {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Made-up tools that look like those of a large company: each is fresh JSON, as if it had come over a wire. */
export function* generateTools(count: number): Generator<Tool> {
  const random = seededRandom(7)
  const used = new Set<string>()
  while (used.size < count) {
    const namespace = pick(services, random)
    const verb = pick(verbs, random)
    const noun = pick(nouns, random)
    const name = random() < 0.4 ? `${verb}_${noun}_${pick(nouns, random)}` : `${verb}_${noun}`
    if (used.has(`${namespace}:${name}`)) continue
    used.add(`${namespace}:${name}`)
    yield JSON.parse(JSON.stringify(makeTool(namespace, name, verb, noun, random))) as Tool
  }
}

function makeTool(namespace: string, name: string, verb: string, noun: string, random: Random): Tool {
  const access = /^(get|list|search|find|fetch|read|count)$/.test(verb) ? 'read' : 'write'
  return {
    namespace,
    name,
    version: '1.0.0',
    description: describe(namespace, verb, noun, random),
    inputSchema: makeSchema(random),
    backends: [{ kind: 'local' }],
    effect: access === 'read' ? 'read' : 'once',
    ...(random() < 0.5 ? { tags: [noun, pick(nouns, random)] } : {}),
    ...(random() < 0.5 ? { permissions: [`${namespace}:${access}`] } : {}),
  }
}

function describe(namespace: string, verb: string, noun: string, random: Random): string {
  const words = [`${verb.charAt(0).toUpperCase()}${verb.slice(1)}s`, 'a', noun, 'in', namespace]
  const length = 10 + Math.floor(random() * 21)
  while (words.length < length) words.push(descriptionWord(random))
  return `${words.join(' ')}.`
}

function descriptionWord(random: Random): string {
  const draw = random()
  if (draw < 0.05) return rareWord(random)
  if (draw < 0.2) return pick(nouns, random)
  return fillers[Math.floor(fillers.length * random() ** 3)] ?? 'the'
}

function makeSchema(random: Random): JsonObject {
  const properties: { [name: string]: JsonObject } = {}
  const count = 2 + Math.floor(random() * 4)
  while (Object.keys(properties).length < count) properties[`${pick(nouns, random)}_id`] = makeProperty(random)
  return { type: 'object', properties, required: Object.keys(properties).slice(0, 1), additionalProperties: false }
}

function makeProperty(random: Random): JsonObject {
  const description = `The ${pick(nouns, random)} ${descriptionWord(random)} ${descriptionWord(random)}.`
  const draw = random()
  if (draw < 0.5) return { type: 'string', description }
  if (draw < 0.7) return { type: 'integer', minimum: 0, description }
  if (draw < 0.8) return { type: 'boolean', description }
  if (draw < 0.9) return { type: 'string', enum: [pick(nouns, random), pick(verbs, random)], description }
  return { type: 'array', items: { type: 'string' }, description }
}

/** One search: its words, and whether the caller may see only half of the services. */
export interface Query {
  readonly text: string
  readonly restricted: boolean
}

/** Queries of 1 to 4 words; a quarter has a typing error, a quarter ends in the beginning of a word. */
export function generateQueries(count: number): Query[] {
  const random = seededRandom(11)
  return Array.from({ length: count }, () => {
    const lists = [nouns, verbs, services, nouns].slice(0, 1 + Math.floor(random() * 4))
    const words = lists.map((list) => pick(list, random))
    const draw = random()
    const last = words.pop() ?? ''
    words.push(draw < 0.25 ? mistyped(last, random) : draw < 0.5 ? last.slice(0, Math.max(3, last.length - 2)) : last)
    return { text: words.join(' '), restricted: random() < 0.5 }
  })
}

/** Permissions of the caller who sees half of the services. */
export function restrictedPermissions(): string[] {
  return services.filter((_, index) => index % 2 === 0).map((service) => `${service}:*`)
}

function mistyped(word: string, random: Random): string {
  const at = 1 + Math.floor(random() * Math.max(1, word.length - 2))
  return word.slice(0, at) + word.slice(at + 1)
}

function pick(list: readonly string[], random: Random): string {
  return list[Math.floor(random() * list.length)] ?? ''
}
