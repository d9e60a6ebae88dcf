/**
 * Keeps stdout for the answer: whoever asks for `process.stdout` from now on, `console.log` too, gets stderr.
 * Returns what opens the real one. Neither is opened here, because that costs a short command some milliseconds.
 */
export function reserveStdout(): () => NodeJS.WriteStream {
  const real = Object.getOwnPropertyDescriptor(process, 'stdout')
  Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, get: () => process.stderr })
  return () => real?.get?.call(process) ?? real?.value
}
