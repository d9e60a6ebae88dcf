import assert from 'node:assert/strict'

/** A syscall as a filter sees it. */
export interface Call {
  readonly architecture: number
  readonly number: number
  readonly arguments?: readonly bigint[]
}

/**
 * Runs a classic BPF program with the kernel's checks: every jump goes forward and stays inside, and every path ends in
 * a return. Supports the instructions that seccomp allows and refuses all others.
 */
export function evaluate(program: Uint8Array, call: Call): { readonly action: string; readonly steps: number } {
  const code = new DataView(program.buffer, program.byteOffset, program.byteLength)
  const length = program.byteLength / 8
  const data = dataOf(call)
  let [a, steps] = [0, 0]
  for (let at = 0; at < length; at += 1) {
    steps += 1
    const operation = code.getUint16(at * 8, true)
    const [jumpTrue, jumpFalse] = [code.getUint8(at * 8 + 2), code.getUint8(at * 8 + 3)]
    const value = code.getUint32(at * 8 + 4, true)
    const branch = (holds: boolean): number => (holds ? jumpTrue : jumpFalse)
    if (operation === 0x20) {
      assert.ok(value % 4 === 0 && value + 4 <= data.byteLength, `load from ${value}`)
      a = data.getUint32(value, true)
    } else if (operation === 0x54) a = (a & value) >>> 0
    else if (operation === 0x05) at += value
    else if (operation === 0x15) at += branch(a === value)
    else if (operation === 0x35) at += branch(a >= value)
    else if (operation === 0x06) return { action: named(value), steps }
    else assert.fail(`no instruction 0x${operation.toString(16)} at ${at}`)
  }
  return assert.fail('ran past the end')
}

function dataOf({ architecture, number, arguments: args = [] }: Call): DataView {
  const data = new DataView(new ArrayBuffer(64))
  data.setUint32(0, number, true)
  data.setUint32(4, architecture, true)
  for (const [index, value] of args.entries()) data.setBigUint64(16 + 8 * index, BigInt.asUintN(64, value), true)
  return data
}

function named(value: number): string {
  if (value === 0x7fff_0000) return 'allow'
  if (value === 0x8000_0000) return 'kill'
  assert.equal(value & 0xffff_0000, 0x0005_0000, `unknown action 0x${value.toString(16)}`)
  return `errno ${value & 0xffff}`
}
