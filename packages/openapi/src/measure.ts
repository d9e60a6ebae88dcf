/** How large a JSON value is: characters of its text, near enough; members; levels. */
export interface Size {
  readonly bytes: number
  readonly nodes: number
  readonly depth: number
}

/** Walks a value once; parts whose size is `known` are not walked again. */
export function measure(value: unknown, known?: WeakMap<object, Size>): Size {
  let [bytes, nodes, deepest] = [0, 0, 0]
  const walk = (item: unknown, depth: number): void => {
    nodes += 1
    deepest = Math.max(deepest, depth)
    if (typeof item !== 'object' || item === null) {
      bytes += typeof item === 'string' ? Buffer.byteLength(item) + 3 : 8
      return
    }
    const part = known?.get(item)
    if (part !== undefined) {
      bytes += part.bytes
      nodes += part.nodes - 1
      deepest = Math.max(deepest, depth + part.depth)
      return
    }
    bytes += 2
    if (Array.isArray(item)) for (const element of item) walk(element, depth + 1)
    else {
      for (const [key, member] of Object.entries(item)) {
        bytes += Buffer.byteLength(key) + 4
        walk(member, depth + 1)
      }
    }
  }
  walk(value, 0)
  return { bytes, nodes, depth: deepest }
}
