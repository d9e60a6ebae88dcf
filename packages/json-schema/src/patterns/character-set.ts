/** One character of a pattern; the engine's own answer for each code point, remembered for ASCII. */
export class CharacterSet {
  readonly #code: number | undefined
  readonly #native: RegExp
  readonly #unicode: boolean
  /** 0 is not asked yet, 1 is no, 2 is yes. */
  readonly #ascii = new Uint8Array(128)

  constructor(source: string, code: number | undefined, unicode: boolean) {
    this.#code = code
    this.#unicode = unicode
    this.#native = code === undefined ? new RegExp(`^${source}$`, unicode ? 'u' : '') : /^/
  }

  has(code: number): boolean {
    if (this.#code !== undefined) return this.#code === code
    if (code >= 128) return this.#ask(code)
    if (this.#ascii[code] === 0) this.#ascii[code] = this.#ask(code) ? 2 : 1
    return this.#ascii[code] === 2
  }

  #ask(code: number): boolean {
    return this.#native.test(this.#unicode ? String.fromCodePoint(code) : String.fromCharCode(code))
  }
}
