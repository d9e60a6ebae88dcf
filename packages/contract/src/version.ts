/** Version of everything in this package; a change that old readers cannot take raises the first number. */
export const contractVersion = '1.0'
