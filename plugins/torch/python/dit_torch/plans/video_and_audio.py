"""Video and audio tokens, which attend to themselves, to each other and to a text, which stays whole; and a
model of video that has such blocks."""

from __future__ import annotations

from ..entries import Alone, Attention, Gather, Plan, Refuse, Split

_LTX2: Plan = (
    Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
    Split("transformer_blocks.0", "audio_hidden_states", 1, 3, "audio"),
    *(
        Split("transformer_blocks.*", name, dim, dims, of=stream)
        for dim, dims in ((1, 3), (2, 4))  # rotary tables are the same for all heads, or not
        for name, stream in (
            ("video_rotary_emb", "image"),
            ("ca_video_rotary_emb", "image"),
            ("audio_rotary_emb", "audio"),
            ("ca_audio_rotary_emb", "audio"),
        )
    ),
    *(
        Split("transformer_blocks.*", name, 1, 3, of=stream)  # a single entry is for all tokens
        for name, stream in (
            ("temb", "image"),
            ("temb_ca_scale_shift", "image"),
            ("temb_ca_gate", "image"),
            ("temb_audio", "audio"),
            ("temb_ca_audio_scale_shift", "audio"),
            ("temb_ca_audio_gate", "audio"),
        )
    ),
    Attention("transformer_blocks.*.attn1"),
    Attention("transformer_blocks.*.audio_attn1", "audio"),
    Alone("transformer_blocks.*.attn2", "encoder_hidden_states"),
    Alone("transformer_blocks.*.audio_attn2", "encoder_hidden_states"),
    Attention("transformer_blocks.*.audio_to_video_attn", "image", "audio"),
    Attention("transformer_blocks.*.video_to_audio_attn", "audio", "image"),
    Gather("transformer_blocks.-1", 1),
    Gather("transformer_blocks.-1", 1, 1, "audio"),
)

_BLOCK = "visual_transformer_blocks.*"

PLANS = {
    "LTX2VideoTransformer3DModel": _LTX2,
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
