import { encodeSection, encodeU32 } from '../guest/binary.ts'

/** A hand-made module: functions without parameters and results, except for the given imports. */
export interface Assembly {
  /** WASI functions by name, with their parameter types; all return one i32, except `proc_exit`. */
  readonly imports?: readonly (readonly [name: string, parameters: readonly number[]])[]
  /** Flags and limits of memories; one page when absent. */
  readonly memories?: readonly (readonly number[])[]
  readonly tables?: readonly (readonly number[])[]
  /** The code of `_start`. */
  readonly body: readonly number[]
  /** Bytes at addresses. */
  readonly data?: readonly (readonly [at: number, bytes: Uint8Array])[]
  /** Further types in binary form. */
  readonly types?: readonly (readonly number[])[]
}

export const [i32, i64] = [0x7f, 0x7e]
export const wasi = 'wasi_snapshot_preview1'

/** Instructions. */
export const op = {
  unreachable: [0x00],
  drop: [0x1a],
  loop: (body: readonly number[]) => [0x03, 0x40, ...body, 0x0b],
  branch: (depth: number) => [0x0c, depth],
  branchIf: (depth: number) => [0x0d, depth],
  block: (body: readonly number[]) => [0x02, 0x40, ...body, 0x0b],
  call: (index: number) => [0x10, ...encodeU32(index)],
  i32: (value: number) => [0x41, ...signed(value)],
  i64: (value: number) => [0x42, ...signed(value)],
  equal: [0x46],
  load: (at: number) => [0x41, ...signed(at), 0x28, 2, 0],
  /** Stores the value of the code at an address. */
  store: (at: number, value: readonly number[]) => [0x41, ...signed(at), ...value, 0x36, 2, 0],
  growMemory: (pages: number) => [0x41, ...signed(pages), 0x40, 0],
  /** Grows the first table, of external references. */
  growTable: (entries: number) => [0xd0, 0x6f, 0x41, ...signed(entries), 0xfc, 0x0f, 0],
} as const

export function assemble({
  imports = [],
  memories = [[0, 1]],
  tables = [],
  body,
  data = [],
  types = [],
}: Assembly): Uint8Array {
  const importTypes = imports.map(([name, parameters]) => [
    ...[0x60, ...vector(parameters.map((type) => [type]))],
    ...vector(name === 'proc_exit' ? [] : [[i32]]),
  ])
  const sections: [number, number[]][] = [
    [1, vector([[0x60, 0, 0], ...importTypes, ...types])],
    [2, vector(imports.map(([name], index) => [...text(wasi), ...text(name), 0, index + 1]))],
    [3, vector([[0]])],
    [4, vector(tables)],
    [5, vector(memories)],
    [7, vector([[...text('_start'), 0, imports.length], ...(memories.length > 0 ? [[...text('memory'), 2, 0]] : [])])],
    [10, vector([sized([0, ...body, 0x0b])])],
    [11, vector(data.map(([at, bytes]) => [0, ...op.i32(at), 0x0b, ...encodeU32(bytes.length), ...bytes]))],
  ]
  const used = sections.filter(([, content]) => content[0] !== 0 || content.length > 1)
  const parts = used.map(([id, content]) => encodeSection(id, content))
  return new Uint8Array(Buffer.concat([Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0), ...parts]))
}

/** Calls an import and exits with its result as the exit code. */
export function exitWith(
  name: string,
  parameters: readonly number[],
  code: readonly number[],
  rest: Partial<Assembly> = {},
) {
  return assemble({
    ...rest,
    imports: [
      [name, parameters],
      ['proc_exit', [i32]],
    ],
    body: [...code, ...op.call(0), ...op.call(1)],
  })
}

function vector(items: readonly (readonly number[])[]): number[] {
  return [...encodeU32(items.length), ...items.flat()]
}

function sized(bytes: readonly number[]): number[] {
  return [...encodeU32(bytes.length), ...bytes]
}

function text(value: string): number[] {
  return sized([...Buffer.from(value)])
}

function signed(value: number): number[] {
  const bytes: number[] = []
  let rest = BigInt(value)
  while (true) {
    const byte = Number(rest & 0x7fn)
    rest >>= 7n
    const last = (rest === 0n && (byte & 0x40) === 0) || (rest === -1n && (byte & 0x40) !== 0)
    bytes.push(last ? byte : byte | 0x80)
    if (last) return bytes
  }
}
