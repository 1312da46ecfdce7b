"""Video and audio tokens, which attend to themselves, to each other and to a text, which stays whole; and a
model of video that has such blocks."""

from __future__ import annotations

from ..entries import Alone, Attention, Gather, Refuse, Split

_BLOCK = "visual_transformer_blocks.*"

PLANS = {
    "Kandinsky6Transformer3DModel": (
        Alone("video_text_transformer_blocks"),
        Alone("audio_text_transformer_blocks"),
        Split("visual_transformer_blocks.0", "vis", 1, 3, "image"),
        Split("visual_transformer_blocks.0", "aud", 1, 3, "audio"),
        Split(_BLOCK, "vis_rope", 0, 5, of="image"),
        Split(_BLOCK, "aud_rope", 0, 5, of="audio"),
        Attention(f"{_BLOCK}.video_dec_block.self_attention"),
        Attention(f"{_BLOCK}.audio_dec_block.self_attention", "audio"),
        Alone(f"{_BLOCK}.video_dec_block.cross_attention", "encoder_hidden_states"),
        Alone(f"{_BLOCK}.audio_dec_block.cross_attention", "encoder_hidden_states"),
        Attention(f"{_BLOCK}.va_cross_attention", "image", "audio"),
        Attention(f"{_BLOCK}.av_cross_attention", "audio", "image"),
        Gather("visual_transformer_blocks.-1", 1),
        Gather("visual_transformer_blocks.-1", 1, 1, "audio"),
    ),
    "SanaWMLTX2RefinerTransformer3DModel": (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Refuse("", "kv_cache", "what it holds is of one rank's tokens"),
        Split("transformer_blocks.*", "temb", 1, 3, of="image"),
        Split("transformer_blocks.*", "video_rotary_emb", 1, 3, of="image"),
        Split("transformer_blocks.*", "video_rotary_emb", 2, 4, of="image"),
        Attention("transformer_blocks.*.attn1"),
        Alone("transformer_blocks.*.attn2", "encoder_hidden_states"),
        *(  # which are there, and not called
            Alone(f"transformer_blocks.*.{name}")
            for name in ("audio_attn1", "audio_attn2", "audio_to_video_attn", "video_to_audio_attn")
        ),
        Gather("transformer_blocks.-1", 1),
    ),
}
